# Sourced after setup.sh: GLSLC becomes a glslc that compiles only what the mat-vec measurements run.
# stand-in for the shaders that nothing measured here runs: the build takes a quarter of the time
printf '#version 450\nlayout(local_size_x=64) in;\nvoid main(){}\n' > $W/stub.comp
$W/glslc.sh --target-env=vulkan1.2 $W/stub.comp -o $W/stub.spv
GLSLC=$W/glslc-stand-ins.sh
cat > $GLSLC <<G
#!/bin/sh
for w in "\$@"; do [ "\$p" = -o ] && out=\$w; [ "\$p" = -MF ] && mf=\$w; p=\$w; done
n=\${out##*/}; n=\${n%.spv}
case \$n in
  matmul_id*|*_cm2*) ;;
  mul_mat_vec_*iq1_m*|mul_mat_vec_*iq2*|mul_mat_vec_*iq3*|mul_mat_vec_*iq4*|mul_mat_vec_*nvfp4*|mul_mat_vec_*iq1_s*|mul_mat_vec_*q4_k*|mul_mat_vec_*q4_0*|mul_mat_vec_*mxfp4*) exec $W/glslc.sh "\$@" ;;
  matmul_f16*|matmul_q2_k*|matmul_iq3_s*|matmul_quant*) exec $W/glslc.sh "\$@" ;;
  matmul_*|mul_mat_vec_*|flash_attn*|conv*|fa_*|im2col*|get_rows*|set_rows*|cpy_f32_*q*|rope*|soft_max*|add_*|mul_f*|sub_*|div_*|gated_delta*|ssm*) ;;
  *) exec $W/glslc.sh "\$@" ;;
esac
[ -n "\$mf" ] && : > "\$mf"
cp $W/stub.spv "\$out"
G
chmod +x $GLSLC
