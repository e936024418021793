#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdint.h>
#include <vulkan/vulkan.h>
#define CK(x) do{VkResult r_=(x); if(r_){fprintf(stderr,"%s:%d %d\n",#x,__LINE__,r_);exit(2);} }while(0)
static uint64_t rs=88172645463325252ull; static uint32_t rnd(void){rs^=rs<<13;rs^=rs>>7;rs^=rs<<17;return (uint32_t)(rs>>16);}
int main(int c,char**v){ // spv rows cols m k out
 const char*spv=v[1]; uint32_t rows=atoi(v[2]),cols=atoi(v[3]),m=atoi(v[4]),k=atoi(v[5]);
 VkInstance in;VkApplicationInfo ai={VK_STRUCTURE_TYPE_APPLICATION_INFO};ai.apiVersion=VK_API_VERSION_1_3;VkInstanceCreateInfo ii={VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};ii.pApplicationInfo=&ai;CK(vkCreateInstance(&ii,0,&in));
 VkPhysicalDevice pd;uint32_t n=1;vkEnumeratePhysicalDevices(in,&n,&pd);
 VkPhysicalDeviceVulkan13Features f13={VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES};VkPhysicalDeviceVulkan12Features f12={VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,&f13};VkPhysicalDeviceVulkan11Features f11={VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,&f12};VkPhysicalDeviceFeatures2 f={VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,&f11};vkGetPhysicalDeviceFeatures2(pd,&f);
 float pr=1;VkDeviceQueueCreateInfo q={VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};q.queueCount=1;q.pQueuePriorities=&pr;VkDeviceCreateInfo di={VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,&f};di.queueCreateInfoCount=1;di.pQueueCreateInfos=&q;VkDevice d;CK(vkCreateDevice(pd,&di,0,&d));VkQueue qu;vkGetDeviceQueue(d,0,0,&qu);
 size_t szA=(size_t)m*(k/256)*110,szB=(size_t)k*cols*4,szD=(size_t)m*cols*4; size_t sz[5]={szA+64,szB,szD,64,64}; VkBuffer b[5];VkDeviceMemory mem[5];void*p[5];
 for(int i=0;i<5;i++){VkBufferCreateInfo bi={VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};bi.size=sz[i];bi.usage=VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;CK(vkCreateBuffer(d,&bi,0,&b[i]));VkMemoryRequirements mr;vkGetBufferMemoryRequirements(d,b[i],&mr);VkMemoryAllocateInfo ma={VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};ma.allocationSize=mr.size;CK(vkAllocateMemory(d,&ma,0,&mem[i]));CK(vkBindBufferMemory(d,b[i],mem[i],0));CK(vkMapMemory(d,mem[i],0,VK_WHOLE_SIZE,0,&p[i]));memset(p[i],0,sz[i]);}
 uint8_t*A=p[0];for(size_t i=0;i<szA;i++)A[i]=rnd();for(size_t i=0;i<szA;i+=110){A[i]=rnd();A[i+1]=0x20|(rnd()&0x8b);} // f16 d of sane size
 float*B=p[1];for(size_t i=0;i<(size_t)k*cols;i++)B[i]=(int32_t)rnd()/2147483648.0f;
 float*D=p[2];for(size_t i=0;i<(size_t)m*cols;i++)D[i]=12345;
 FILE*fp=fopen(spv,"rb");fseek(fp,0,SEEK_END);long L=ftell(fp);rewind(fp);uint32_t*w=malloc(L);if(fread(w,1,L,fp)!=(size_t)L)return 2;
 VkShaderModuleCreateInfo mi={VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};mi.codeSize=L;mi.pCode=w;VkShaderModule mo;CK(vkCreateShaderModule(d,&mi,0,&mo));
 VkDescriptorSetLayoutBinding lb[5];memset(lb,0,sizeof lb);for(int i=0;i<5;i++){lb[i].binding=i;lb[i].descriptorCount=1;lb[i].descriptorType=VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;lb[i].stageFlags=VK_SHADER_STAGE_COMPUTE_BIT;}
 VkDescriptorSetLayoutCreateInfo li={VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO};li.bindingCount=5;li.pBindings=lb;VkDescriptorSetLayout sl;CK(vkCreateDescriptorSetLayout(d,&li,0,&sl));
 VkPushConstantRange pc={VK_SHADER_STAGE_COMPUTE_BIT,0,52};VkPipelineLayoutCreateInfo pl={VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};pl.setLayoutCount=1;pl.pSetLayouts=&sl;pl.pushConstantRangeCount=1;pl.pPushConstantRanges=&pc;VkPipelineLayout lay;CK(vkCreatePipelineLayout(d,&pl,0,&lay));
 uint32_t sv[3]={64,rows,cols};VkSpecializationMapEntry me[3]={{0,0,4},{1,4,4},{2,8,4}};VkSpecializationInfo si={3,me,12,sv};
 VkComputePipelineCreateInfo ci={VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};ci.stage.sType=VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;ci.stage.stage=VK_SHADER_STAGE_COMPUTE_BIT;ci.stage.module=mo;ci.stage.pName="main";ci.stage.pSpecializationInfo=&si;ci.layout=lay;VkPipeline pi;CK(vkCreateComputePipelines(d,0,1,&ci,0,&pi));
 VkDescriptorPoolSize ps={VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,5};VkDescriptorPoolCreateInfo dp={VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};dp.maxSets=1;dp.poolSizeCount=1;dp.pPoolSizes=&ps;VkDescriptorPool po;CK(vkCreateDescriptorPool(d,&dp,0,&po));VkDescriptorSetAllocateInfo da={VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO};da.descriptorPool=po;da.descriptorSetCount=1;da.pSetLayouts=&sl;VkDescriptorSet ds;CK(vkAllocateDescriptorSets(d,&da,&ds));
 for(int i=0;i<5;i++){VkDescriptorBufferInfo bi={b[i],0,VK_WHOLE_SIZE};VkWriteDescriptorSet ws={VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};ws.dstSet=ds;ws.dstBinding=i;ws.descriptorCount=1;ws.descriptorType=VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;ws.pBufferInfo=&bi;vkUpdateDescriptorSets(d,1,&ws,0,0);}
 VkCommandPoolCreateInfo cp={VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};VkCommandPool cpo;CK(vkCreateCommandPool(d,&cp,0,&cpo));VkCommandBufferAllocateInfo ca={VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};ca.commandPool=cpo;ca.commandBufferCount=1;VkCommandBuffer cb;CK(vkAllocateCommandBuffers(d,&ca,&cb));VkCommandBufferBeginInfo bb={VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};CK(vkBeginCommandBuffer(cb,&bb));
 uint32_t push[13]={k,k,k,m,m*k,k,m,0,0,1,1,1,1};
 vkCmdBindPipeline(cb,VK_PIPELINE_BIND_POINT_COMPUTE,pi);vkCmdBindDescriptorSets(cb,VK_PIPELINE_BIND_POINT_COMPUTE,lay,0,1,&ds,0,0);vkCmdPushConstants(cb,lay,VK_SHADER_STAGE_COMPUTE_BIT,0,52,push);vkCmdDispatch(cb,(m+rows-1)/rows,1,1);CK(vkEndCommandBuffer(cb));
 VkSubmitInfo su={VK_STRUCTURE_TYPE_SUBMIT_INFO};su.commandBufferCount=1;su.pCommandBuffers=&cb;CK(vkQueueSubmit(qu,1,&su,0));CK(vkQueueWaitIdle(qu));
 fwrite(D,4,m*cols,stdout);
 double s=0;for(size_t i=0;i<m*cols;i++)s+=D[i]*D[i];fprintf(stderr,"%g\n",s);return 0;}
