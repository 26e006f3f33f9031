
contextacme *p10:ÐÊ„ØÀ©Ó: